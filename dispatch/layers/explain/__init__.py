"""`tt.explain`: the path of a call through the dispatcher, as text. It is imported and runs only on demand."""
