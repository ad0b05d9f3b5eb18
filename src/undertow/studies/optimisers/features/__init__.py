"""Do features average (O-i), and does co-correlation rise (O-j), whatever the rule?"""
