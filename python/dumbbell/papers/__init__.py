"""Papers of which more than tables is reproduced: their figures, and the frames that their claims speak of."""
