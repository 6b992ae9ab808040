"""Results from and for other tools: Flent both ways; iperf3, ss, pcap and qlog are read.

A reader returns `measurement.Measurement`: flows with what the file says of them, nothing else. `setup` proposes the
experiment that simulates the same, `imported_tables` makes the store's tables, `keep` writes them.
"""
