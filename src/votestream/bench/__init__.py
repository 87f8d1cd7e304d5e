"""What judges: method x stream x seed becomes a row of results, rows become tables, plots and a report."""
