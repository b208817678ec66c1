"""From events to a report: bronze, silver, gold, report; and redrive, which makes jobs of dead letters."""
