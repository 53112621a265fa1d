"""The statements, one module per topic; ``proofs.register`` lists them all."""
