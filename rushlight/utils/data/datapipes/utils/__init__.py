"""What pipes of files and functions share."""
