"""Ways of checking a statement: by regions, by two solvers, on the product's paths, by search."""
