"""Steps of LSTM and GRU, and whole recurrent layers."""
