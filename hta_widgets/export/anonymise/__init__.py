"""Copies of Kineto traces to share: what is private is hashed, what is counted stays."""
