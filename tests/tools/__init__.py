"""Tests of the tools that the Makefile runs."""
