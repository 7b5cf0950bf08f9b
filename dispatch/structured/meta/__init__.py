"""Meta functions, view geometries and planners of operators, a module for each family."""
