"""Overrides above the dispatcher: function modes, interception of public functions, and overridable functions."""
