"""What the real-client suites share: brokers to run against, a raw connection, and how cases are run and counted."""
