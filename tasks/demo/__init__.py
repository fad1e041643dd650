"""The demonstration: a realistic load of all reference tasks, and an account of every one."""
