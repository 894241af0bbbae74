"""The page: a kernel played step by step in a browser, as one offline file or served to the local user."""
