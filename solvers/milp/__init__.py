"""Mixed-integer programs through PuLP, solved by HiGHS (or CBC); nothing else imports PuLP."""
