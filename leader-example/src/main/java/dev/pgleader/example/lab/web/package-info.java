/** The page of the lab, and what it may ask for. */
package dev.pgleader.example.lab.web;
