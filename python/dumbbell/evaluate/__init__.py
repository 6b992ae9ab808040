"""Verdicts on a congestion control or a queue: suites of scenes and criteria, each with the paragraph that it answers.

A suite is a folder: `suite.toml`, and an experiment file for each of its scenes. docs/evaluate.md says what its keys
mean.
"""
