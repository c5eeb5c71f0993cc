"""Copies of tiles that change which loop elements lie along."""
