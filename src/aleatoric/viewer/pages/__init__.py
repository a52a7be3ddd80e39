"""What each page shows, as plain data for its template."""
