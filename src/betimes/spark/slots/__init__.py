"""One engine per slot: the stateful operator, the live engine, and what is stored of it."""
