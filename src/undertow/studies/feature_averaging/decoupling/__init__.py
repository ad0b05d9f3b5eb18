"""Do cluster labels decouple the features, and is the network more robust then? (F-k and F-l)"""
