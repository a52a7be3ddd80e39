"""Results as plain data, tables, figures and pages. Never imports torch."""
