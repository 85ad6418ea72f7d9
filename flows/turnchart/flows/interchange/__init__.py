"""Session files that come from elsewhere: read line by line, with the place of what is wrong."""
