"""Linux in virtual time: kernels made for it, and experiments run on them."""
