"""The papers' studies, one file each: cases in, a `Study` (tables and figure data) out."""
