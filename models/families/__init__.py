"""The recipe of small networks of other families: recurrences, attention, detectors, segmentation and trees."""
