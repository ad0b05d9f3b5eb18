"""What every study is made with: parts, claims, exact tests, the ledger of verdicts, replications."""
