"""Starting programs in several processes, and starting them again."""
