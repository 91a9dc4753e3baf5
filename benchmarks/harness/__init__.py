"""Hold what every suite shares: where it runs, who starts what, who is measured when, and what came out."""
