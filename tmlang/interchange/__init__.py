"""Other people's formats, read and written: no tensors, no names of this language."""
