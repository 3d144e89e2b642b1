"""URLs: how they are shown, the files behind them, and the copies made of them."""
