"""What a theorem predicts, as numbers to set beside measurements."""
