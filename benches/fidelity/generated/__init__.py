"""The generated corpus: PDFs with exact truth. Only the generator is in the repository."""
