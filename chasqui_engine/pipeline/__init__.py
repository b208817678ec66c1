"""From events to answers: bronze, silver, gold, report; and the way back, redrive."""
