"""Tests of the diagnosis: labelled jobs, and how well their causes are found."""
