"""An attack on the library: hostile files, numbers, settings and command lines.

Every case ends well if the library gives a right answer or refuses in its own words. Run it with
`make attack`, or `python -m attack --seconds 60 --seed 1`.
"""
