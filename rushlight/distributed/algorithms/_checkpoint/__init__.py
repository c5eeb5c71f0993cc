"""Parts of models that keep nothing for backward, or keep it elsewhere."""
