"""What leaves the JVM, and how: the rows that are needed, packed by slot for the shuffle."""
