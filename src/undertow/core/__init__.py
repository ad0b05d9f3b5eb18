"""What everyone uses: errors, statuses, precision, losses, networks read layer by layer, many networks as one."""
