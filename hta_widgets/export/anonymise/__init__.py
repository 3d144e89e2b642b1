"""Copies of Kineto traces to share: private names are hashed, numbers stay."""
