"""Tests of the benchmarks that compare commits."""
