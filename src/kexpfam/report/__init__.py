"""A fitted density, judged and shown on one page that needs nothing but a browser."""

from kexpfam.report.evidence import Origin
from kexpfam.report.report import Report, make_report, write_report
from kexpfam.report.section import Section

__all__ = ["Origin", "Report", "Section", "make_report", "write_report"]
