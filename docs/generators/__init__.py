"""What writes the pages of the site that nobody types: methods, API, figures, pages from outside docs/, llms.txt."""
