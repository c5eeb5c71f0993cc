"""What ``__torch_dispatch__`` sees, compared with PyTorch operator by operator."""
