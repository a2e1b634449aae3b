"""The program that `betimes submit` hands to spark-submit, with the arguments of `run`.

spark-submit takes a file that does not end in `.py` for a JAR, so it cannot be given the command
`betimes` itself.
"""

from betimes.cli import main

if __name__ == "__main__":
    main()
