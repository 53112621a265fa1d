"""How far routers are from the best anyone could have done, knowing everything."""
