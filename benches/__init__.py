"""What the engine costs, and how it is kept from costing more."""
