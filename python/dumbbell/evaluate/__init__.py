"""Verdicts on controls, queues, stacks and traces: suites of scenes and criteria, each with what it answers.

A suite is a folder: `suite.toml`, and an experiment file for each of its scenes. docs/evaluate.md says what its keys
mean.
"""
