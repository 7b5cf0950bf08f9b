"""`tt.explain`: which way a call goes, as text. Nothing here runs, or is imported, unless somebody asks."""
