"""Above the dispatcher: function modes, how they put themselves into public functions, what can be overridden."""
