"""The journeys of a table, each a page: read these first."""
