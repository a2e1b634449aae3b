"""The experiments of the papers on speculation and on ordering, repeated here."""
