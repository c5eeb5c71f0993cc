"""Sorts by digits, as functions of a device's grid."""
