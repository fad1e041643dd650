"""The operations app: what an operator looks at and does."""
